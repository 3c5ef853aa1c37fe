//! The faults that users of other clients have reported, one test for each, named by its id in docs/faults.md. A test is about the
//! whole kind of its fault: the case that was reported, and its neighbours.

#[path = "support/c.rs"]
mod c;
#[path = "support/compiler.rs"]
mod compiler;
mod support;

#[path = "faults/correlating.rs"]
mod correlating;
#[path = "faults/framing.rs"]
mod framing;
#[path = "faults/hosting.rs"]
mod hosting;
#[path = "faults/lives.rs"]
mod lives;
#[path = "faults/other_clients.rs"]
mod other_clients;
#[path = "faults/pressure.rs"]
mod pressure;
#[path = "faults/served.rs"]
mod served;
#[path = "faults/starting.rs"]
mod starting;
#[path = "faults/supervising.rs"]
mod supervising;

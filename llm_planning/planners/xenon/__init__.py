"""XENON: planning knowledge that is corrected by experience, and the agents it is compared with."""

"""The lab: data sets, peers, and experiments that put the paper's claims to the test."""

"""The paper's experiments: sweeps as data, a runner that can be killed, claims, figures and a report."""

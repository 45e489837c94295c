"""A task that any machine can run: tell from a paragraph which function it documents. `python -m examples.demo`."""

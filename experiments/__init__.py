"""Which numbers? Presets, the training loop, runs, benches and the command line."""

"""Small presets from the seeds of this field, each trained in seconds: fruit, toy-regression, spirals."""

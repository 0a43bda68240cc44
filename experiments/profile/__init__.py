"""Where the time of a training step goes: by scope and op, forward and backward, compiled and op by op."""

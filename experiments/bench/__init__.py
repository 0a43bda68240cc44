"""What does it cost, beside what else people use? Every figure is a ratio of medians taken in one alternating run."""

"""The only code that sees the truth: counting, measuring, and holding what was published against it."""

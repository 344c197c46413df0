"""What a loss is given: numbers of another kind than those it reckons with."""

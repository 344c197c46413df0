"""Which submissions of a class are nearer to each other than the class is. Pure: tokens in, pairs and passages out."""

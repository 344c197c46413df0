"""Programs on real libraries, each plain and recorded: `make test-libraries`."""

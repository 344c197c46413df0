"""What is looked into when an optimiser steps: that it never finds anything, that its numbers stay as they were."""

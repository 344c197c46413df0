"""Names of what isn't an op of torch although a Frame or a Write of the Recording holds it as one."""

EXTERNAL_WRITE = "write outside torch"
"""A Write that torch never saw: numpy, a raw pointer."""

STEP = "step"
"""An optimiser's update that was made where no call of torch could be seen."""

GRADIENT_READ = ".grad"
"""A gradient was read that isn't kept."""

"""Warm processes: the zygote, its forks, and the kernel that runs in one."""

"""What a student wrote → what may be shown: every conversion bounded, and made in a confined process."""

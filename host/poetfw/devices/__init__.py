"""PlatformIO, compilers and emulators: the only code that starts processes."""

"""Object stores to test against: real servers on loopback, and one that fails by script."""

"""The SHEAR paper reproduced: its data, networks, theory, metrics and experiments."""

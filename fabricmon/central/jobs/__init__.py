"""Which jobs run: one task a source (Slurm, Kubernetes, files)."""

"""Commands for who works on Tidegauge itself. They write into a checkout, and into nothing else."""

"""The score: worlds whose truth is known, audited like any other cluster, and what the audit caught and missed."""

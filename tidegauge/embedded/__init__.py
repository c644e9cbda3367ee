"""What the product starts for its user: a Postgres, and an Airflow."""

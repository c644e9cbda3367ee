"""One partition: everything known of it, as rows of the relations."""

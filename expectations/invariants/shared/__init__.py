"""What more than one invariant says: reasons for not knowing, derived names, templates, rules."""

"""What the coordinators' logs say: groups, share groups and transactional ids, their newest words and their pasts."""

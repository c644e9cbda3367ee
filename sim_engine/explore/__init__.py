"""Exhaustive exploration of Kafka's replication protocol: every state that a small cluster can reach, and the shortest
way to one that has lost a committed record.

The models are those of the public TLA+ specification of Kafka replication (hachikuji/kafka-specification): one
partition, a controller, and five generations of what a follower does when it learns of a new leader.
"""

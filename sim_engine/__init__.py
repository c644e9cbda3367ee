"""Kafka clusters whose truth is known: a cluster in miniature, deterministic to the byte, that breaks as real ones do.

    log            a replica's log and what cleaning, tiering and recovery make of it
    metadata       the controller, and the metadata log in which it decides
    brokers        leading, following, dying and coming back
    coordinators   transactions, groups, share groups
    clients        producers and consumers
    faults         what goes wrong with disks and transactions, on purpose
    rendering      worlds as log directories and snapshots
    scenarios      stories with known endings
    explore        every state that one small partition can reach

`engine.step(world, action)` gives the next world. The rule that must hold: this package shares the codec (`kafka_log`)
and the snapshot layout (`snapshots`) with the auditor, and nothing else, so that a protocol rule is written once as a
broker's behaviour and once as an auditor's recomputation.
"""

"""Kafka clusters whose truth is known: a cluster in miniature, deterministic to the byte, that breaks as real ones do.

    log            a replica's log and what cleaning, tiering and recovery make of it
    metadata       the metadata log, and the image and the decisions that it holds
    coordinators   transactions, groups, share groups: pure state machines
    files          a node's directories as files
    controllers    the controller at work
    disks          a broker's disk, and what happens to it
    brokers        leading, following, dying and coming back
    hosting        how brokers host coordinators
    clients        producers and consumers
    faults         what goes wrong with the remote tier and with transactions, on purpose
    rendering      worlds as snapshots
    scenarios      stories with known endings
    explore        every state that one small partition can reach

`engine.step(world, action)` gives the next world. The rule that must hold: this package shares the codec (`kafka_log`)
and the snapshot layout (`snapshots`) with the auditor, and nothing else, so that a protocol rule is written once as a
broker's behaviour and once as an auditor's recomputation.
"""

"""Scenarios that are written down as YAML, by users and by us.

    places        text -> a tree in which everything knows its line; what YAML may do and is not wanted is refused
    form          what a scenario says, as values
    steps         the words of a step, and what each makes happen
    claims        what is said to be so at a moment, held against the world
    reading       the tree -> the form: strict, one error that says where and what to do
    playing       the form and a seed -> moments

The rule that must hold: a file is read whole before anything is played, and played whole before anything is written.
"""

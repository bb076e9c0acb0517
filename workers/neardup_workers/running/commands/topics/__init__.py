"""``neardup topics``: the topics of a deployment, the rights of its users, and what a change of settings means."""

"""Who may reach the listeners of agent and centre and do what there, and how the centre reaches its agents."""

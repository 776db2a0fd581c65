package launch

// GateType is the workflow type of a gate, as it stands in histories.
const GateType = "tranche-gate"

const reasons: Readonly<Record<string, string>> = {
  step: 'the running step had to end',
  slots: 'all slots were taken',
  cells: 'the KV cells of all slots were taken',
  budget: 'other prompts filled the steps',
  policy: 'the policy admitted nobody',
  order: 'a later one went first',
  deadline: 'a later one was due sooner',
  prefix: 'another one computes the same prefix',
}

/** A reason to wait, in words. */
export const reasonText = (reason: string): string => reasons[reason] ?? reason

/** The reason that took the longest. */
export const mainReason = (all: Readonly<Record<string, number>>): string =>
  Object.entries(all).sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'step'

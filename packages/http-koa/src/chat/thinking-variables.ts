/** How hard a client asks a model to think, from not at all. */
export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

/**
 * The variables with which templates are told whether and how hard to think: they know it under several
 * names.
 */
export function thinkingVariables(
  effort: boolean | string | null | undefined,
): Readonly<Record<string, unknown>> {
  if (effort === undefined || effort === null) return {}
  const thinks = effort !== false && effort !== 'none'
  return {
    enable_thinking: thinks,
    thinking: thinks,
    ...(typeof effort === 'string' && thinks ? { reasoning_effort: effort } : {}),
  }
}

const longest = 60

/** A value as a message shows it. */
export const describeValue = (value: unknown): string => {
  if (value === null || value === undefined) return 'nothing'
  const json = JSON.stringify(value)
  return json.length > longest ? `${json.slice(0, longest)}…` : json
}

/** About how many tokens an English text has: four characters each, but from one per text. */
export function guessTokens(text: string): number {
  return Math.max(1, Math.round(text.length / 4))
}

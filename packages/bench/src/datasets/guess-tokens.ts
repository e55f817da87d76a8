/** Characters of a token, as long as nobody has counted: about that of English text. */
export const charactersPerToken = 4

/** About how many tokens an English text has: four characters each, but from one per text. */
export function guessTokens(text: string): number {
  return Math.max(1, Math.round(text.length / charactersPerToken))
}

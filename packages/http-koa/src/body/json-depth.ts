const [quote, backslash] = ['"'.charCodeAt(0), '\\'.charCodeAt(0)]
const openings = new Set(['{', '['].map((bracket) => bracket.charCodeAt(0)))
const closings = new Set(['}', ']'].map((bracket) => bracket.charCodeAt(0)))

/** Levels of a request's JSON at most, where no other limit is set. */
export const defaultJsonDepth = 100

/**
 * Whether JSON is nested deeper than a limit. Reads the text, since code that works on the parsed
 * value may recurse.
 */
export function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0
  let isInText = false
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (isInText) {
      if (code === backslash) index++
      else if (code === quote) isInText = false
    } else if (code === quote) isInText = true
    else if (openings.has(code)) {
      if (++depth > limit) return true
    } else if (closings.has(code)) depth--
  }
  return false
}

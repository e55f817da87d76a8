/** Where the JSON object or array at the beginning of a text ends, or undefined while it goes on. */
export function endOfJson(text: string): number | undefined {
  let depth = 0
  let inString = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (inString) {
      if (character === '\\') index++
      else if (character === '"') inString = false
    } else if (character === '"') inString = true
    else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      depth--
      if (depth <= 0) return index + 1
    }
  }
  return undefined
}

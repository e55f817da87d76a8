/** A long request; each number gives a different one. */
export function longAsk({ words, tokens }, number) {
  const text = Array.from({ length: words }, (_, place) => lexicon[(place * 7 + number) % 12])
  const prompt = `Story ${number}: ${text.join(' ')}`
  return { prompt, maxTokens: tokens, tenant: '', temperature: 0, ignoreEos: true }
}

const lexicon = 'the old house by river was full of light and small birds'.split(' ')

import { PNG } from 'pngjs'

const answer = `A **KV cache** keeps the keys and values of tokens that were read, so that each next token costs one row of attention:

$$
\\operatorname{softmax}\\left(\\frac{q K^\\top}{\\sqrt{d}}\\right) V
$$

\`\`\`js
const cached = new Map() // one entry for each position
for (const token of prompt) cached.set(cached.size, keysOf(token))
\`\`\`

| tokens | without a cache | with one |
|---:|---:|---:|
| 100 | 5,050 | 100 |
| 1,000 | 500,500 | 1,000 |

- [x] keys and values kept
- [ ] old ones dropped

> Arabic is written from the right:

نعم، تحفظ المفاتيح والقيم.
`

const image = new PNG({ width: 320, height: 200 })
for (let at = 0; at < image.width * image.height; at++) {
  const [x, y] = [at % image.width, Math.floor(at / image.width)]
  const isSun = (x - 230) ** 2 + (y - 70) ** 2 < 1600
  const isLand = y > 150 - 30 * Math.sin(x / 50)
  const colour = isLand ? [70, 130, 80, 255] : isSun ? [250, 200, 80, 255] : [150, 190, 230, 255]
  image.data.set(colour, 4 * at)
}
const picture = `data:image/png;base64,${PNG.sync.write(image).toString('base64')}`

/** What the chat shows: files, an image, and an answer with all that an answer may have. */
export const conversation = {
  id: 'shown',
  title: 'What is a KV cache?',
  changedAt: Date.UTC(2026, 10, 24, 11),
  leaf: 'd',
  turns: [
    {
      id: 'a',
      parent: null,
      role: 'user',
      content: 'What is a KV cache?',
      files: [
        { name: 'attention.txt', text: 'Attention reads all earlier tokens.' },
        { name: 'landscape.png', type: 'image', data: picture },
      ],
    },
    {
      id: 'b',
      parent: 'a',
      role: 'assistant',
      model: 'stories15m',
      content: answer,
      reasoning: 'The question is about attention.',
      request: '38c9020d7f537e0baa6c03f80bb53410',
      finish: 'stop',
      figures: {
        firstTokenMs: 84,
        tokensPerSecond: 41.5,
        promptTokens: 120,
        cachedTokens: 96,
        tokens: 211,
      },
    },
    { id: 'c', parent: 'b', role: 'user', content: 'And how large does it get?' },
    {
      id: 'd',
      parent: 'c',
      role: 'assistant',
      model: 'stories15m',
      content: 'It grows with the number of',
      finish: 'length',
      figures: { firstTokenMs: 39, tokensPerSecond: 42.1, tokens: 6 },
    },
  ],
}

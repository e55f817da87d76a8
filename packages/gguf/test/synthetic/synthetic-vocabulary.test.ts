// slow: makes 151,387 merges and has llama.cpp load them, 6 s
import { join } from 'node:path'
import { bytePairMetadata, syntheticVocabulary, TokenType, writeGguf } from '@cllm/gguf'
import { getLlama, LlamaLogLevel } from 'node-llama-cpp'
import t from 'tap'

const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled })
t.teardown(() => llama.dispose())

/** English texts and the number of tokens that Qwen's own vocabulary takes for them. */
const texts = [
  {
    original: 125,
    text: `It was late in the autumn when the old schoolmaster finally decided to leave the village where he had spent the greater part of his life. The road to the station was wet, and the leaves lay thick upon it; nobody had swept them since the last storm. He walked slowly, carrying a small brown suitcase in one hand and his umbrella in the other, and he did not once look back at the house. "You will miss us," the baker's wife had said to him that morning, wrapping a loaf in paper. He had only smiled and shaken his head, for he was not certain whether it was true.`,
  },
  {
    original: 118,
    text: `User: I've been feeling really stressed at work lately. Any tips?
Assistant: I'm sorry to hear that! Here are a few things you could try: take short breaks every hour, go for a walk at lunch, and talk to someone you trust. If it doesn't get better, it might be worth speaking with a professional.
User: Thanks. How many hours of sleep should I get?
Assistant: Most adults need between 7 and 9 hours per night. Try to keep a regular schedule, avoid screens before bed, and limit caffeine after 2 p.m.`,
  },
  {
    original: 122,
    text: `Continuous batching schedules work at the granularity of a single iteration: as soon as a sequence finishes, its slot in the batch is given to a waiting request, so the accelerator never idles on padding. The key-value cache is divided into fixed-size blocks that need not be contiguous in memory, which eliminates fragmentation and allows prefixes to be shared between requests. Throughput improves by an order of magnitude compared with static batching, while the latency of individual tokens remains acceptable. However, long prompts interfere with decoding; chunked prefill mitigates this by splitting the prompt into smaller pieces and interleaving them with decode steps.`,
  },
  {
    original: 43,
    text: `Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;`,
  },
]

t.test('qwen3-0.6b: the vocabulary has the layout and the economy of the original', async (t) => {
  const vocabulary = syntheticVocabulary('qwen3-0.6b')
  t.equal(vocabulary.tokens.length, 151_936)
  t.equal(new Set(vocabulary.tokens).size, 151_936, 'no token twice')
  t.equal(vocabulary.merges.length, 151_643 - 256)
  t.equal(vocabulary.tokens.indexOf('<|endoftext|>'), 151_643)
  t.equal(vocabulary.tokens.indexOf('</think>'), 151_668)
  t.equal(vocabulary.types[151_645], TokenType.Control)
  t.equal(vocabulary.types[151_669], TokenType.Unused)

  const out = join(t.testdir(), 'vocabulary.gguf')
  const architecture = {
    'general.architecture': { type: 'string', value: 'qwen3' },
    'qwen3.block_count': { type: 'uint32', value: 0 },
  } as const
  await writeGguf(out, { ...architecture, ...bytePairMetadata(vocabulary) }, [])
  const model = await llama.loadModel({ modelPath: out, vocabOnly: true })
  t.teardown(() => model.dispose())
  for (const { original, text } of texts) {
    const tokens = model.tokenize(text)
    t.ok(Math.abs(tokens.length / original - 1) < 0.15, `${tokens.length} against ${original}`)
    t.equal(model.detokenize(tokens), text)
  }
  t.equal(model.tokenize('1234').length, 4, 'digits stand alone')
  const strange = 'Straße, Ελλάδα, Москва, 日本語, 한국어, 🙂\u0000'
  t.equal(model.detokenize(model.tokenize(strange)), strange)
})

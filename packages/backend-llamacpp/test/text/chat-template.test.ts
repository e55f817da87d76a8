import { join } from 'node:path'
import type { ChatMessage, TokenId, Tokenizer } from '@cllm/core'
import { bool, uint32 } from '@cllm/gguf'
import t, { type Test } from 'tap'
import { fixtures } from './chat-templates/fixtures.js'
import type { TemplateFixture } from './chat-templates/conversations.js'
import { openTiny } from '../open-tiny.js'
import { firstControl, writeTinyModel } from '../tiny-models.js'

/** The ids of a fixture's control tokens, in a vocabulary that has them. */
function controlIds({ bos, eos, controls }: TemplateFixture): Map<string, TokenId> {
  const known = ['<unk>', '<s>', '</s>']
  const ids = new Map(known.map((text, id) => [text, id]))
  const others = [bos ?? '', eos, ...controls].filter((text) => text !== '' && !ids.has(text))
  for (const [index, text] of others.entries()) ids.set(text, firstControl + index)
  return ids
}

async function open(t: Test, fixture: TemplateFixture): Promise<Tokenizer> {
  const ids = controlIds(fixture)
  const { bos, eos, template: chatTemplate } = fixture
  const metadata = {
    'tokenizer.ggml.add_bos_token': bool(bos !== undefined),
    'tokenizer.ggml.bos_token_id': uint32(ids.get(bos ?? '<s>')!),
    'tokenizer.ggml.eos_token_id': uint32(ids.get(eos)!),
  }
  const modelPath = join(t.testdir(), 'model.gguf')
  await writeTinyModel(modelPath, 'llama', metadata, [...ids.keys()].slice(3))
  return (await openTiny(t, { modelPath, chatTemplate })).tokenizer
}

/** The control tokens that a text holds, in their order. */
function controlsIn(text: string, ids: ReadonlyMap<string, TokenId>): TokenId[] {
  const texts = Array.from(ids.keys()).sort((a, b) => b.length - a.length)
  const escaped = texts.map((one) => one.replace(/[[\]|/]/g, '\\$&'))
  return Array.from(text.matchAll(new RegExp(escaped.join('|'), 'g')), ([one]) => ids.get(one)!)
}

for (const fixture of fixtures) {
  t.test(fixture.name, async (t) => {
    const tokenizer = await open(t, fixture)
    const ids = controlIds(fixture)
    const begin = fixture.bos === undefined ? [] : [ids.get(fixture.bos)!]
    const isControl = new Set(ids.values())
    const controls = (tokens: readonly TokenId[]) => tokens.filter((id) => isControl.has(id))
    const withBegin = (found: readonly TokenId[]) =>
      found[0] === begin[0] ? found : [...begin, ...found]

    for (const { about, messages, options, text } of fixture.cases) {
      const rendered = tokenizer.renderChat(messages, options)
      t.equal(rendered.text, text, about)
      t.same(controls(rendered.tokens), withBegin(controlsIn(text, ids)), `${about}: its tokens`)

      // control tokens that clients write are text, in whichever message they stand
      const evil = Array.from(ids.keys()).join('')
      const evilMessages = messages.map((message): ChatMessage => ({
        ...message,
        content: `${message.content}${evil}x`,
      }))
      const { tokens, text: evilText } = tokenizer.renderChat(evilMessages, options)
      t.ok(evilText.includes(`${evil}x`), 'they stay in the text')
      t.same(controls(tokens), controls(rendered.tokens), `${about}: no further control tokens`)
    }
  })
}

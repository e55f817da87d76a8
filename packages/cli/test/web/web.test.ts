import { protocolsPlugin, Services } from '@cllm/http-koa'
import t from 'tap'
import { loadConfig } from '../../src/config/load-config.js'
import { createProtocols } from '../../src/http/create-protocols.js'
import { loadRegistry } from '../../src/plugins/load-registry.js'
import { serve } from '../serve-process.js'
import { startBrowser } from './browser.js'
import { chatsAndBranches, keepsAll, stops, toolsByHand } from './chat.js'
import { conversations, filesAndPairs } from './conversations.js'
import { switchedOff } from './keys.js'
import { lab } from './lab.js'
import { keyboard, models } from './models.js'
import { newcomer } from './newcomer.js'
import { executable, skip, visit } from './visit.js'

t.test('the page of a server without keys, used as a person would', { skip }, async (t) => {
  const [{ url }, browser] = await Promise.all([
    serve(t, '--model', 'stories15m', '--slots', '4'),
    startBrowser(t, executable!),
  ])
  const step = await visit(t, browser, url)
  await step('a newcomer: a chat, a shared prefix, another policy under load', newcomer)
  await step('chat: settings, figures, edit, regenerate, branches', chatsAndBranches)
  await step('chat: a reload and a second tab lose nothing', keepsAll)
  await step('chat: the list of conversations', conversations)
  await step('chat: tools, whose results are typed in', toolsByHand)
  await step('chat: stopped', stops)
  await step('chat: files, presets, two answers beside each other', filesAndPairs)
  await step('everything by keyboard: a page, a message, its answer', keyboard)
  await step('lab: a synthetic load, files and the last minutes, and one policy applied', lab)
  await step('models: unloaded, loaded, and one that no source has', models)
  await step('keys and usage: off, nothing is asked', switchedOff)
})

t.test('a setting turns it off', async (t) => {
  const registry = await loadRegistry(
    { plugins: [], pluginsFolder: '.' },
    { builtIns: [protocolsPlugin] },
  )
  const routes = (...argv: string[]) =>
    createProtocols(loadConfig({ argv, env: {} }), registry, new Services()).flatMap(
      ({ name, routes = [] }) => (name === 'web' ? routes.map(({ path }) => path) : []),
    )
  t.same(routes(), ['/', '/ui', '/ui/*file'])
  t.same(routes('--no-ui'), [])
})

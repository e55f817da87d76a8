import {
  type Channel,
  type EngineLink,
  type FromEngine,
  hostEngine,
  type ToEngine,
} from '@cllm/host'
import {
  type Clock,
  createEngine,
  type EngineOptions,
  PluginRegistry,
  type SimulatedClock,
  type TokenId,
} from '@cllm/core'
import { firstComeFirstServed, type FakeBackendOptions } from '@cllm/testing'
import { counting, WatchedBackend } from '../../core/test/rig.js'

/** One end of a way between processes: what arrives has been JSON. */
export class End<Out, In> implements Channel<Out, In> {
  readonly sent: Out[] = []
  readonly #messages: ((message: In) => void)[] = []
  readonly #closes: ((reason: string) => void)[] = []
  other: End<In, Out> | undefined
  #isOpen = true
  #isFrozen = false

  send(message: Out): void {
    if (!this.#isOpen || this.#isFrozen) return
    this.sent.push(message)
    const json = JSON.stringify(message)
    queueMicrotask(() => this.other?.receive(JSON.parse(json) as Out))
  }

  /** From now on nothing passes here in either direction, as when a process never yields. */
  freeze(): void {
    this.#isFrozen = true
  }

  receive(message: In): void {
    if (this.#isOpen && !this.#isFrozen) for (const listener of this.#messages) listener(message)
  }

  onMessage(listener: (message: In) => void): void {
    this.#messages.push(listener)
  }

  onClose(listener: (reason: string) => void): void {
    this.#closes.push(listener)
  }

  break(reason: string): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const listener of this.#closes) listener(reason)
  }
}

/** Both ends. */
export function channels() {
  const here = new End<ToEngine, FromEngine>()
  const there = new End<FromEngine, ToEngine>()
  here.other = there
  there.other = here
  return { here, there }
}

export interface FakeProcessOptions extends Partial<FakeBackendOptions> {
  readonly clock: SimulatedClock
  /** What its engine's clock is ahead; default: nothing. */
  readonly aheadMs?: () => number
  readonly registry?: PluginRegistry
  readonly engine?: Partial<EngineOptions>
  /** Called before each step of the process; what it returns is waited for. */
  readonly onStep?: (
    process: FakeProcess,
    batch: Parameters<WatchedBackend['step']>[0],
  ) => Promise<void> | void
  /** Called before a sampler is made. */
  readonly onSampler?: (process: FakeProcess, tokens: readonly TokenId[]) => void
  /** Called before a text is tokenized. */
  readonly onEncode?: (process: FakeProcess, text: string) => void
  /** Called before each part of a text that is tokenized in parts of 1,000 characters, if it is there. */
  readonly onPart?: (process: FakeProcess) => void
  /** Milliseconds that a process needs to load its model. */
  readonly loadMs?: number
}

/** What seems to be a process with an engine on a fake backend. */
export class FakeProcess implements EngineLink {
  readonly channel: End<ToEngine, FromEngine>
  readonly backend: WatchedBackend
  readonly #there: End<FromEngine, ToEngine>

  constructor(options: FakeProcessOptions) {
    const { clock, onStep, registry = new PluginRegistry(), loadMs = 0 } = options
    const { here, there } = channels()
    this.channel = here
    this.#there = there
    const stepping = async (batch: Parameters<WatchedBackend['step']>[0]) =>
      await onStep?.(this, batch)
    const preparing = (tokens: readonly TokenId[]) => options.onSampler?.(this, tokens)
    this.backend = new (class extends WatchedBackend {
      override async step(batch: Parameters<WatchedBackend['step']>[0]) {
        await stepping(batch)
        return await super.step(batch)
      }

      override createSampler(...given: Parameters<WatchedBackend['createSampler']>) {
        preparing(given[1])
        return super.createSampler(...given)
      }
    })({ stepMs: () => 10, slots: 4, ...options })
    const { tokenizer } = this.backend
    const encode = tokenizer.encode.bind(tokenizer)
    tokenizer.encode = (text, given) => {
      options.onEncode?.(this, text)
      return encode(text, given)
    }
    const { onPart } = options
    if (onPart !== undefined) {
      const atWork = () => onPart(this)
      tokenizer.encodeInParts = function* (text, given) {
        for (let start = 0; start < text.length; start += 1000) {
          atWork()
          yield encode(text.slice(start, start + 1000), given)
        }
      }
    }
    const { aheadMs = () => 0 } = options
    const engineClock: Clock = {
      now: () => clock.now() + aheadMs(),
      wall: () => clock.wall(),
      at: (at, callback) => clock.at(at - aheadMs(), callback),
    }
    const load = () => {
      const policy = firstComeFirstServed
      const { backend } = this
      const random = counting()
      const engine = createEngine({
        backend,
        policy,
        clock: engineClock,
        random,
        options: options.engine ?? {},
      })
      hostEngine(engine, registry, there)
    }
    if (loadMs === 0) load()
    else clock.at(clock.now() + loadMs, load)
  }

  /** It computes for ever without yielding: it says and hears nothing any more. */
  hang(): void {
    this.#there.freeze()
  }

  /** As SIGKILL does it. */
  readonly kill = (reason = 'its process ended with SIGKILL'): void => {
    this.channel.break(reason)
    this.#there.break('its parent is gone')
  }
}

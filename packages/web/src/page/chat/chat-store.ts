import type { Server } from '../server.js'
import { ask } from './ask.js'
import { chatBody, type McpTool } from './chat-body.js'
import { emptyConversation, shownTurns, withBranch, withChange, withTurn } from './conversation.js'
import type { Attachment, Conversation, ToolResult, Turn } from './conversation.js'
import { type Marks, parseConversations } from './saved-conversations.js'
import * as browserStorage from './saved-conversations.js'
import type { ChatSettings } from './settings/settings.js'

const newId = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The tools of the server's MCP servers; tells of those that cannot be reached. */
async function mcpTools(
  server: Server,
  signal: AbortSignal,
  notify: (notice: Notice) => void,
): Promise<readonly McpTool[]> {
  const { data, problems } = await server.json<{
    readonly data: readonly (McpTool & { readonly server: string })[]
    readonly problems: readonly string[]
  }>('mcp/tools', { signal })
  if (problems.length > 0) notify({ text: problems.join('; ') })
  return data.map(({ name, description, parameters }) => ({ name, description, parameters }))
}

/** A message about the list of conversations, and the actions that undo the change or make an undone one again. */
export interface Notice {
  readonly text: string
  readonly undo?: () => void
  readonly redo?: () => void
}

/** An answer that streams in. */
interface Running {
  /** The id of its conversation. */
  readonly of: string
  readonly controller: AbortController
  /** Resolves when its end is shown and stored. */
  readonly ended: Promise<void>
}

const noRoom = 'This browser has no room left'
const notKept = `${noRoom}: the conversation ends with this page, unless you export it or delete others.`
const isFull = ({ name }: Error): boolean => name === 'QuotaExceededError'

/** What a chat shows. */
export interface ChatState {
  readonly conversation: Conversation
  readonly others: readonly Conversation[]
  /** The ids of the answers that are streaming in. */
  readonly coming: ReadonlySet<string>
  readonly notice: Notice | undefined
}

/** How questions are asked. */
export interface Asking {
  readonly server: Server
  /** The settings of each question: one set, or two to compare. */
  readonly settings: readonly ChatSettings[]
  /** The names of the models, the default first. */
  readonly models: readonly string[]
}

type Storage = Pick<
  typeof browserStorage,
  'forget' | 'keep' | 'mark' | 'readConversation' | 'readHistory'
>

/** The chat: the conversation that is shown, the others, and what can be done with them. */
export type Chat = ReturnType<ReturnType<typeof createChat>['chat']>

/**
 * Makes the state of a chat and what changes it, without anything that draws it.
 *
 * @param storage - where conversations are kept. Default: this browser
 * @param frames - asks for a call before the next picture, and takes that back. Default: the browser's
 */
export function createChat(
  { forget, keep, mark, readConversation, readHistory }: Storage = browserStorage,
  frames = {
    ask: (draw: () => void): number => requestAnimationFrame(draw),
    take: (frame: number): void => cancelAnimationFrame(frame),
  },
) {
  const newConversation = (): Conversation => emptyConversation(newId(), Date.now())
  let state: ChatState = {
    conversation: newConversation(),
    others: [],
    coming: new Set(),
    notice: undefined,
  }
  let asking: Asking | undefined
  let onChange: (state: ChatState) => void = () => {}
  const set = (change: Partial<ChatState>): void => onChange((state = { ...state, ...change }))
  const running = new Map<string, Running>()
  const stop = (): void => running.forEach(({ controller }) => controller.abort())
  const isBusy = (): boolean => state.coming.size > 0
  const show = (conversation: Conversation): void => set({ conversation })
  const notify = (notice: Notice | undefined): void => set({ notice })
  const refresh = async (): Promise<void> => set({ others: await readHistory() })
  const save = async (work: Promise<unknown>): Promise<void> => {
    await work.catch((error: Error) => {
      // Other errors are ignored: a private window may have no database at all.
      if (isFull(error)) notify({ text: notKept })
    })
    await refresh()
  }

  const run = (asked: Conversation, id: string, how: ChatSettings): void => {
    const controller = new AbortController()
    const ended = fill(asked, id, how, controller.signal)
    running.set(id, { of: asked.id, controller, ended })
    set({ coming: new Set(running.keys()) })
  }
  /** Asks for the answer `id` of a conversation, or for its continuation; shows and stores it. */
  const fill = async (
    asked: Conversation,
    id: string,
    how: ChatSettings,
    signal: AbortSignal,
  ): Promise<void> => {
    const turn = asked.turns.find((one) => one.id === id)!
    const before = shownTurns({ ...asked, leaf: turn.content === '' ? turn.parent : id })
    const isShown = (): boolean => state.conversation.id === asked.id
    let arrived: Partial<Turn> = {}
    let frame = 0
    const showArrived = (): void => {
      frame = 0
      if (isShown()) show(withChange(state.conversation, id, arrived))
    }
    const update = (more: Partial<Turn>): void => {
      arrived = { ...arrived, ...more }
      frame ||= frames.ask(showArrived) // many tokens may come between two pictures
    }
    try {
      const { server } = asking!
      const tools = how.mcp === 'on' ? await mcpTools(server, signal, notify) : []
      await ask(server, await chatBody(before, how, tools), signal, update, turn)
    } catch (error) {
      update({ problem: signal.aborted ? 'Stopped' : (error as Error).message })
    }
    frames.take(frame)
    showArrived()
    running.delete(id)
    set({ coming: new Set(running.keys()) })
    await save(keep(isShown() ? state.conversation : withChange(asked, id, arrived), id))
  }

  /** Asks for the answer to the last turn: one, or two beside each other. */
  const answer = (asked: Conversation): void => {
    const { settings, models } = asking!
    const ids = settings.map(newId)
    const answers = settings.map((how, index): Turn => {
      const model = how.model || models[0]
      const beside = ids[1 - index]
      const more = {
        ...(model !== undefined && { model }),
        ...(beside !== undefined && { beside }),
      }
      return { id: ids[index]!, parent: asked.leaf, role: 'assistant', content: '', ...more }
    })
    const added = answers.reduce((before, turn) => withTurn(before, turn, Date.now()), asked)
    const next = { ...added, leaf: ids[0] ?? null, system: settings[0]?.system ?? '' }
    show(next)
    void save(keep(next)) // the page may be closed before the answer ends
    for (const [index, how] of settings.entries()) run(next, ids[index]!, how)
  }

  const tell = (turn: Omit<Turn, 'id'>): void => {
    if (!isBusy()) answer(withTurn(state.conversation, { id: newId(), ...turn }, Date.now()))
  }
  const question = (parent: string | null, content: string, files: readonly Attachment[]): void => {
    if (content.trim() === '' && files.length === 0) return
    tell({ parent, role: 'user', content, ...(files.length > 0 && { files }) })
  }

  /** Deletes a conversation; an answer to it that streams in is stopped first, as by the stop button. */
  const remove = async ({ id, title }: Conversation): Promise<void> => {
    const own = [...running.values()].filter(({ of }) => of === id)
    for (const { controller } of own) controller.abort()
    await Promise.all(own.map(async ({ ended }) => await ended))
    const kept = await readConversation(id)
    const before = state.conversation
    const empty = newConversation()
    if (before.id === id) show(empty)
    void forget(id).then(refresh)
    if (kept === undefined) return // another tab has deleted it
    const undo = (): void => {
      notify({ text: `“${title}” is back`, redo: () => void remove(kept) })
      if (state.conversation === empty) show(before)
      void save(keep(kept))
    }
    notify({ text: `“${title}” is deleted`, undo })
  }

  const actions = {
    dismiss: (): void => notify(undefined),
    send: (text: string, files: readonly Attachment[] = []): void =>
      question(state.conversation.leaf, text, files),
    /** Asks an edited question, in a new branch. */
    edit: (turn: Turn, text: string): void => question(turn.parent, text, turn.files ?? []),
    /** Gives the results of a turn's tool calls; given again, they make a new branch. */
    giveResults: (calls: string, results: readonly ToolResult[]): void =>
      tell({ parent: calls, role: 'tool', content: '', results }),
    /** Asks for another answer to the same question, in a new branch. */
    regenerate(turn: Turn): void {
      if (!isBusy()) answer({ ...state.conversation, leaf: turn.parent })
    },
    /** Continues an answer that was cut off. */
    goOn(turn: Turn): void {
      const { settings, models } = asking!
      const [how] = settings
      if (isBusy() || how === undefined) return
      const model = turn.model ?? how.model
      run(state.conversation, turn.id, models.includes(model) ? { ...how, model } : how)
    },
    stop,
    show: (branch: Turn): void => show(withBranch(state.conversation, branch.id)),
    open(other: Conversation | undefined): void {
      stop()
      const before = state.conversation
      if (other === undefined) show(newConversation())
      else {
        void readConversation(other.id).then((kept) => {
          if (state.conversation === before) show(kept ?? other)
        })
      }
    },
    mark(other: Conversation, marks: Marks): void {
      if (other.id === state.conversation.id) show({ ...state.conversation, ...marks })
      void save(mark(other, marks))
    },
    remove,
    /** Imports conversations from JSON files, and says how many were stored and what went wrong. */
    async take(files: readonly File[]): Promise<void> {
      let count = 0
      const problems: string[] = []
      for (const file of files) {
        try {
          for (const each of parseConversations(await file.text())) {
            await keep(each)
            count++
          }
        } catch (error) {
          const { message } = error as Error
          problems.push(`${file.name}: ${isFull(error as Error) ? noRoom : message}`)
        }
      }
      await refresh()
      const imported = count > 0 && `${count} conversation${count === 1 ? '' : 's'} imported`
      notify({ text: [imported || 'Nothing imported', ...problems].join('; ') })
    },
  }
  return {
    refresh,
    stop,
    /** Calls back with each new state, from now on in place of an earlier listener. */
    follow: (listener: typeof onChange): void => void (onChange = listener),
    /** The chat as it is, whose questions are asked in this way from now on. */
    chat(next: Asking) {
      asking = next
      /** Whether an answer is streaming in, so that nothing else can be asked. */
      return { ...state, isBusy: isBusy(), ...actions }
    },
  }
}

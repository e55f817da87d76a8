import { useEffect, useRef, useState } from 'preact/hooks'
import type { Server } from '../server/server.js'
import { ask } from './ask.js'
import { chatBody } from './chat-body.js'
import {
  type Conversation,
  emptyConversation,
  shownTurns,
  type ToolResult,
  type Turn,
  withBranch,
  withChange,
  withTurn,
} from './conversation.js'
import { forget, keep, readConversation, readHistory } from './history.js'
import type { ChatSettings } from './settings.js'

const newId = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The chat: the conversation that is shown, the others, and what can be done with them. */
export interface Chat {
  readonly conversation: Conversation
  readonly others: readonly Conversation[]
  /** The turn whose answer is coming. */
  readonly coming: string | undefined
  readonly send: (text: string) => void
  /** Another question in the place of this one. */
  readonly edit: (turn: Turn, text: string) => void
  /** What the calls of a turn gave; given once more, it takes the place of what it was. */
  readonly giveResults: (calls: string, results: readonly ToolResult[]) => void
  /** Another answer in the place of this one. */
  readonly regenerate: (turn: Turn) => void
  readonly stop: () => void
  readonly show: (branch: Turn) => void
  readonly open: (conversation: Conversation | undefined) => void
  readonly remove: (conversation: Conversation) => void
}

/** The state of the chat. */
export function useChat(server: Server, settings: ChatSettings): Chat {
  const [conversation, setShown] = useState(() => emptyConversation(newId(), Date.now()))
  const [others, setOthers] = useState<readonly Conversation[]>([])
  const [coming, setComing] = useState<string>()
  const running = useRef<AbortController>(undefined)
  /** What is shown, also within an answer that began earlier. */
  const current = useRef(conversation)

  useEffect(() => {
    void readHistory().then(setOthers)
    return () => running.current?.abort()
  }, [])

  const change = (next: Conversation): void => {
    current.current = next
    setShown(next)
  }
  const store = async (changed: Conversation, answered: string): Promise<void> => {
    await keep(changed, answered)
    setOthers(await readHistory())
  }

  const answer = async (asked: Conversation): Promise<void> => {
    const turns = shownTurns(asked)
    const id = newId()
    const { model } = settings
    const turn: Turn = {
      id,
      parent: asked.leaf,
      role: 'assistant',
      content: '',
      ...(model === '' ? {} : { model }),
    }
    change(withTurn(asked, turn, Date.now()))
    const controller = new AbortController()
    running.current = controller
    setComing(id)
    let shown = current.current
    // The page may be closed before the answer ends.
    void store(shown, id)
    let frame = 0
    const update = (part: Partial<Turn>): void => {
      shown = withChange(shown, id, part)
      // Many tokens may come between two pictures.
      frame ||= requestAnimationFrame(() => {
        frame = 0
        if (current.current.id === shown.id) change({ ...shown, leaf: current.current.leaf })
      })
    }
    try {
      await ask(server, chatBody(turns, settings), controller.signal, update)
    } catch (error) {
      const problem = controller.signal.aborted ? 'Stopped' : (error as Error).message
      update({ problem })
    }
    cancelAnimationFrame(frame)
    const isShown = current.current.id === shown.id
    if (isShown) change({ ...shown, leaf: current.current.leaf })
    setComing(undefined)
    await store(isShown ? current.current : shown, id)
  }

  const tell = (turn: Omit<Turn, 'id'>): void => {
    if (coming !== undefined) return
    const asked = withTurn(current.current, { id: newId(), ...turn }, Date.now())
    change(asked)
    void answer(asked)
  }
  const question = (parent: string | null, content: string): void => {
    if (content.trim() !== '') tell({ parent, role: 'user', content })
  }

  return {
    conversation,
    others,
    coming,
    send: (text) => question(current.current.leaf, text),
    edit: (turn, text) => question(turn.parent, text),
    giveResults: (parent, results) => tell({ parent, role: 'tool', content: '', results }),
    regenerate(turn) {
      if (coming === undefined) void answer({ ...current.current, leaf: turn.parent })
    },
    stop: () => running.current?.abort(),
    show: (turn) => change(withBranch(current.current, turn.id)),
    open(other) {
      running.current?.abort()
      const before = current.current
      if (other === undefined) change(emptyConversation(newId(), Date.now()))
      else {
        void readConversation(other.id).then((kept) => {
          if (current.current === before) change(kept ?? other)
        })
      }
    },
    remove(other) {
      void forget(other.id).then(async () => setOthers(await readHistory()))
      if (other.id === current.current.id) change(emptyConversation(newId(), Date.now()))
    },
  }
}

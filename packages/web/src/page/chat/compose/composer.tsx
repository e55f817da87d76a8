import { ArrowUp, Paperclip, Square, X } from 'lucide'
import { useEffect, useState } from 'preact/hooks'
import { Form, Problem, Upload } from '../../parts/form.js'
import { counted } from '../../parts/format.js'
import { IconButton } from '../../parts/icon.js'
import { type Server, useServer } from '../../server.js'
import { questionOf } from '../chat-body.js'
import { type Attachment, mediaBytes, mostMediaBytes } from '../conversation.js'
import { longPaste, type Modality, readAttachment, Thumbnail } from './attachment.js'
import type { Chat } from '../chat-store.js'
import { settingsId } from '../settings/settings-form.js'

interface ComposerProps {
  readonly chat: Chat
  readonly field: { readonly current: HTMLTextAreaElement | null }
  /** Empty: the server's default. */
  readonly model: string
  /** The inputs that the model takes, if they are known. */
  readonly inputs: readonly Modality[] | undefined
  /** The name of the system prompt, if there is one. */
  readonly system: string | undefined
  readonly onEditLast: () => void
}

/** The form for a question: Enter sends it; files can be dropped, pasted or chosen. */
export function Composer({ chat, field, model, inputs, system, onEditLast }: ComposerProps) {
  const [text, setText] = useState('')
  const [files, setFiles] = useState<readonly Attachment[]>([])
  const [costs, setCosts] = useState<ReadonlyMap<Attachment, number>>(new Map())
  const server = useServer()
  const [problem, setProblem] = useState<string>()
  const { isBusy } = chat
  const isEmpty = text.trim() === '' && files.length === 0
  useEffect(() => setProblem(undefined), [text])
  const send = (): void => {
    if (isBusy || isEmpty) return
    chat.send(text, files)
    setText('')
    setFiles([])
    setCosts(new Map())
  }
  const add = (file: Attachment, others = files): void => {
    const kept = chat.conversation.turns.flatMap((turn) => turn.files ?? [])
    if (mediaBytes([...kept, ...others, file]) > mostMediaBytes) {
      throw new Error(
        `A conversation keeps at most ${mostMediaBytes / 1e6} MB of images and sounds`,
      )
    }
    setFiles((known) => [...known, file])
    void countTokens(server, model, file).then(
      (tokens) => setCosts((known) => new Map([...known, [file, tokens]])),
      (error: Error) => setProblem(`${file.name}: ${error.message}`),
    )
  }
  const attach = async (chosen: readonly File[]): Promise<void> => {
    const others = [...files]
    const problems: string[] = []
    for (const file of chosen) {
      try {
        const read = await readAttachment(file, inputs)
        add(read, others)
        others.push(read)
      } catch (error) {
        problems.push((error as Error).message)
      }
    }
    setProblem(problems.join('; ') || undefined)
  }
  const paste = (event: ClipboardEvent): void => {
    const { files: pasted } = event.clipboardData ?? { files: [] }
    const long = event.clipboardData?.getData('text/plain') ?? ''
    if (pasted.length === 0 && long.length <= longPaste) return
    event.preventDefault()
    if (pasted.length > 0) void attach([...pasted])
    else add({ name: `Pasted text ${files.length + 1}`, text: long })
  }
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowUp' && text === '') {
      event.preventDefault()
      onEditLast()
    }
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    send()
  }
  return (
    <div class="dock">
      <Form
        class="composer"
        aria-label="Question"
        onSend={send}
        onDropped={(dropped) => void attach(dropped)}
      >
        <ul class="chips" aria-label="Attached">
          {files.map((file, index) => (
            <li class="chip" key={index}>
              <Thumbnail file={file} />
              <span>{file.name}</span>
              {costs.has(file) && <span class="cost">{counted(costs.get(file)!, 'token')}</span>}
              <IconButton
                icon={X}
                name={`Remove ${file.name}`}
                onPress={() => setFiles(files.filter((_, other) => other !== index))}
              />
            </li>
          ))}
        </ul>
        <textarea
          ref={field}
          aria-label="Message"
          placeholder="Message"
          rows={1}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={paste}
          onKeyDown={press}
        />
        <div class="row">
          <Upload icon={Paperclip} name="Attach files" onChosen={(chosen) => void attach(chosen)} />
          {system !== undefined && (
            <button type="button" class="chip" popovertarget={settingsId} title="System prompt">
              <span>{system}</span>
            </button>
          )}
          {isBusy ? (
            <IconButton class="send" icon={Square} name="Stop" keys="Esc" onPress={chat.stop} />
          ) : (
            <IconButton
              class="send"
              type="submit"
              icon={ArrowUp}
              name="Send"
              keys="Enter"
              disabled={isEmpty}
            />
          )}
        </div>
        <Problem text={problem} />
      </Form>
    </div>
  )
}

/** Tokens that a file adds to a question. Counting encodes an image; the answer then finds it in the cache. */
async function countTokens(server: Server, model: string, file: Attachment): Promise<number> {
  const counts = [[file], []].map(async (files) => {
    const messages = [await questionOf({ content: '?', files })]
    const body = { ...(model !== '' && { model }), messages }
    const path = 'v1/chat/completions/input_tokens'
    return await server.json<{ readonly input_tokens: number }>(path, { method: 'POST', body })
  })
  const [withIt, without] = await Promise.all(counts)
  return (withIt?.input_tokens ?? 0) - (without?.input_tokens ?? 0)
}

import { AudioLines, FileText } from 'lucide'
import { useEffect, useState } from 'preact/hooks'
import { Icon } from '../../parts/icon.js'
import { type Attachment, isMedia, type MediaFile } from '../conversation.js'

/** A small picture of a file: the image itself, or what kind it is. */
export function Thumbnail({ file }: { readonly file: Attachment }) {
  if (!isMedia(file)) return <Icon of={FileText} />
  return file.type === 'image' ? <Media file={file} isDecoration /> : <Icon of={AudioLines} />
}

interface MediaProps {
  readonly file: MediaFile
  /** Whether its name stands beside it. */
  readonly isDecoration?: boolean
}

/** An image, or a sound that can be played. */
export function Media({ file: { name, type, data }, isDecoration = false }: MediaProps) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(data)
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [data])
  if (url === undefined) return null
  if (type === 'audio') return <audio controls src={url} aria-label={name} />
  return <img src={url} alt={isDecoration ? '' : name} />
}

/* The XDP program of a port that is shared with the kernel: what is ours goes to our AF_XDP socket, all else goes on to
 * the kernel. `mod.rs` says what is ours, and writes it into `settings` before the program is loaded.
 *
 * It includes no header, so that building it needs no more than clang. Numbers of the wire are compared as they stand
 * in memory.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline))
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NET16(number) __builtin_bswap16(number)
#else
#define NET16(number) (number)
#endif

enum { SLOTS = 4096, PROBES = 16, VLANS = 64, QUEUES = 1024 };
enum { SERVICE = 1, QUERY_SOURCE = 2 };
enum { XDP_PASS = 2 };
enum { ICMP = 1, UDP = 17, ICMPV6 = 58 };
enum { ARP_REQUEST = 1, ECHO_REQUEST = 8, ECHO_REQUEST_6 = 128, SOLICITATION = 135 };
enum { ETHERNET = 14, TAG = 4, ARP = 28, IPV4 = 20, IPV6 = 40 };

/* The context of a program (linux/bpf.h, struct xdp_md). */
struct context {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index;
};

/* An IPv6 address as it stands in memory; IPv4 addresses are mapped (RFC 4291 section 2.5.5.2). */
struct address {
	u64 high, low;
};

/* `settings.rs` writes all but the name. */
struct settings {
	u8 name[16];
	u32 dns_port;
	u32 vlan_count;
	u64 seed;
	u32 vlans[VLANS];
	struct address addresses[SLOTS];
	u8 kinds[SLOTS];
};

const volatile struct settings settings SECTION(".rodata") = { .name = "pmdns settings" };

/* DPDK looks for a map of this name, and puts the sockets of the queues into it. BPF_MAP_TYPE_XSKMAP is 17. */
struct {
	int (*type)[17];
	int (*max_entries)[QUEUES];
	u32 *key;
	u32 *value;
} xsks_map SECTION(".maps");

static long (*redirect_map)(void *map, u64 key, u64 otherwise) = (void *)51;

/* Whether the address is one of ours, and of which kind; 0: it is not. */
INLINE u32 kind_of(u64 high, u64 low)
{
	u64 mixed = (high ^ settings.seed) * 0x9e3779b97f4a7c15 ^ low;
	u64 hash = (mixed ^ mixed >> 32) * 0xff51afd7ed558ccd;

	for (u32 probe = 0; probe < PROBES; probe++) {
		u32 slot = ((u32)(hash >> 52) + probe) % SLOTS;

		if (settings.kinds[slot] == 0)
			return 0;
		if (settings.addresses[slot].high == high && settings.addresses[slot].low == low)
			return settings.kinds[slot];
	}
	return 0;
}

INLINE u32 kind_of_v4(const u8 *at)
{
	u8 bytes[16] __attribute__((aligned(8))) = { [10] = 0xff, [11] = 0xff };

	*(u32 *)(bytes + 12) = *(const u32 *)at;
	return kind_of(0, *(u64 *)(bytes + 8));
}

INLINE u32 kind_of_v6(const u8 *at)
{
	return kind_of(*(const u64 *)at, *(const u64 *)(at + 8));
}

INLINE int is_tag(u16 type)
{
	return type == NET16(0x8100) || type == NET16(0x88a8);
}

INLINE int is_our_vlan(u32 key)
{
	for (u32 index = 0; index < VLANS && index < settings.vlan_count; index++)
		if (settings.vlans[index] == key)
			return 1;
	return 0;
}

/* Requests for all our addresses: our reply is the kernel's, since the MAC address is the same. Replies only where we
 * asked. */
INLINE int arp_is_ours(const u8 *arp, const u8 *end)
{
	u32 kind;

	if (arp + ARP > end)
		return 0;
	kind = kind_of_v4(arp + 24);
	return kind == QUERY_SOURCE || (kind == SERVICE && *(const u16 *)(arp + 6) == NET16(ARP_REQUEST));
}

INLINE int udp_is_ours(const u8 *udp, const u8 *end)
{
	return udp + 8 <= end && *(const u16 *)(udp + 2) == (u16)settings.dns_port;
}

INLINE int ipv4_is_ours(const u8 *ip, const u8 *end)
{
	const u8 *l4;
	u32 kind, length;

	if (ip + IPV4 > end)
		return 0;
	kind = kind_of_v4(ip + 16);
	if (kind != SERVICE)
		return kind == QUERY_SOURCE;
	/* More fragments follow, or it is not the first. The kernel puts them together. */
	if (*(const u16 *)(ip + 6) & NET16(0x3fff))
		return 0;
	length = (*ip & 0xf) * 4;
	if (length < IPV4)
		return 0;
	l4 = ip + length;
	if (ip[9] == UDP)
		return udp_is_ours(l4, end);
	return ip[9] == ICMP && l4 + 1 <= end && *l4 == ECHO_REQUEST;
}

INLINE int ipv6_is_ours(const u8 *ip, const u8 *end)
{
	const u8 *l4 = ip + IPV6;
	u32 kind;

	if (l4 > end)
		return 0;
	kind = kind_of_v6(ip + 24);
	if (kind == QUERY_SOURCE)
		return 1;
	if (ip[6] == ICMPV6 && l4 + 24 <= end && *l4 == SOLICITATION)
		return kind_of_v6(l4 + 8) != 0;
	if (kind != SERVICE)
		return 0;
	if (ip[6] == UDP)
		return udp_is_ours(l4, end);
	return ip[6] == ICMPV6 && l4 + 1 <= end && *l4 == ECHO_REQUEST_6;
}

INLINE int is_ours(const struct context *context)
{
	const u8 *frame = (const u8 *)(u64)context->data;
	const u8 *end = (const u8 *)(u64)context->data_end;
	u16 type;
	u32 vlan = 0;

	if (frame + ETHERNET > end)
		return 0;
	type = *(const u16 *)(frame + 12);
	for (u32 depth = 0; depth < 2 && is_tag(type); depth++) {
		u16 inner, id;

		if (frame + ETHERNET + TAG > end)
			return 0;
		id = NET16(*(const u16 *)(frame + 14)) & 0xfff;
		inner = *(const u16 *)(frame + 16);
		/* The last tag is a customer's, and a pair has two ids: `stages/src/vlan.rs`. */
		if (!is_tag(inner) && type != NET16(0x8100))
			return 0;
		if (depth == 1 && (vlan == 0 || id == 0))
			return 0;
		vlan = vlan << 16 | id;
		type = inner;
		frame += TAG;
	}
	if (!is_our_vlan(vlan))
		return 0;
	frame += ETHERNET;
	if (type == NET16(0x0800))
		return ipv4_is_ours(frame, end);
	if (type == NET16(0x86dd))
		return ipv6_is_ours(frame, end);
	return type == NET16(0x0806) && arp_is_ours(frame, end);
}

/* libxdp takes a program of this name and version for its own. So the sockets of a process that takes over join the map of the
 * program that is on the interface, and nothing is loaded. */
int (*xsk_prog_version)[1] SECTION("xdp_metadata");

/* A queue without a socket passes everything on. */
SECTION("xdp") int xsk_def_prog(struct context *context)
{
	if (is_ours(context))
		return redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
	return XDP_PASS;
}
